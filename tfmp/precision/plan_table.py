"""PrecisionPlan: the dtype that each layer of a model computes in, and why."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import keras

from tfmp.precision import layer_tree, reverting
from tfmp.precision.layer_tree import LayerNode
from tfmp.precision.policy_names import NARROW_DTYPES
from tfmp.shared.report_files import JsonObject
from tfmp.shared.reporting import Report, Section, Table
from tfmp.shared.wording import shown


@dataclass(frozen=True)
class LayerPrecision:
    """One row of a plan.

    Attributes:
        path: names of the containing layers and the layer's own name, joined by "/"; "/" is the
            model.
        layer_class: the layer's class name.
        policy: the Keras dtype policy that the layer gets; None for a layer that stays as it is.
        compute_dtype: dtype that the layer computes in.
        variable_dtype: dtype of the layer's weights; only "float64", "bfloat16" and "float16"
            change it.
        reason: the reason in half a sentence.
    """

    path: str
    layer_class: str
    policy: str | None
    compute_dtype: str
    variable_dtype: str
    reason: str


@dataclass(frozen=True)
class PrecisionPlan(Report):
    """The dtype that each layer of a model computes in.

    A plan prints as a table. `to_dict` and `from_dict` take it through JSON and back.

    Attributes:
        policy: name of the Keras dtype policy of all layers without a reason against it.
        reason: why this policy was chosen.
        rows: one row for each layer; containers come before the layers that they contain.
        notes: problems that no layer's dtype can fix.
        unscalable: layers whose own gradients do not grow with the loss scale, by path.
    """

    policy: str
    reason: str
    rows: tuple[LayerPrecision, ...]
    notes: tuple[str, ...] = ()
    unscalable: tuple[str, ...] = ()
    _model: "weakref.ref[keras.Model] | None" = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Everything but the model, for `pickle`: a plan may be applied to another one."""
        return {**vars(self), "_model": None}

    def apply(self, model: keras.Model | None = None) -> keras.Model:
        """Switches the layers to the plan's dtypes, in place; `tfmp.revert` undoes it.

        Variables stay the same objects. Functions that Keras traced before are dropped, so that
        `fit`, `evaluate` and `predict` trace anew.

        Args:
            model: a copy of the planned model; the planned model itself by default.

        Returns:
            The model.

        Raises:
            ValueError: the plan does not fit the model, or there is no model.
        """
        model = model if model is not None else (self._model() if self._model else None)
        if model is None:
            raise ValueError(
                "This plan has no model: it was read from a dict, or its model is gone. "
                "Pass one: plan.apply(model)."
            )
        pairs = _pair(layer_tree.walk(model), self.rows)
        reverting.set_policies(model, {node.layer: row.policy for node, row in pairs if row.policy})
        return model

    def with_moved(self, model: keras.Model) -> "PrecisionPlan":
        """The plan with the layers in float32 that training moved there since it was applied."""
        now = {node.path: node.layer.compute_dtype for node in layer_tree.walk(model).within()}
        wide = {"policy": "float32", "compute_dtype": "float32"}
        rows = [
            replace(row, **wide, reason="needed float32 in training")
            if row.compute_dtype in NARROW_DTYPES and now.get(row.path) == "float32"
            else row
            for row in self.rows
        ]
        return replace(self, rows=tuple(rows))

    @property
    def narrow_dtypes(self) -> frozenset[str]:
        """The 16-bit dtypes that layers compute in."""
        return frozenset(row.compute_dtype for row in self.rows).intersection(NARROW_DTYPES)

    def kept_float32(self) -> tuple[LayerPrecision, ...]:
        """The rows that a rule keeps in float32 against the plan's policy."""
        if self.policy == "float32":
            return ()
        return tuple(row for row in self.rows if row.policy == "float32")

    def to_dict(self) -> JsonObject:
        """The plan as plain lists, strings and None."""
        return {
            "policy": self.policy,
            "reason": self.reason,
            "layers": [vars(row).copy() for row in self.rows],
            "notes": list(self.notes),
            "unscalable": list(self.unscalable),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "PrecisionPlan":
        """The plan that `to_dict` wrote; its `apply` needs a model.

        Raises:
            ValueError: the data is something else.
        """
        try:
            return cls(
                policy=data["policy"],
                reason=data["reason"],
                rows=tuple(LayerPrecision(**row) for row in data["layers"]),
                notes=tuple(data["notes"]),
                unscalable=tuple(data.get("unscalable", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                "PrecisionPlan.from_dict expects what plan.to_dict() returned; received "
                f"{shown(data)} ({type(error).__name__}: {error})."
            ) from error

    @property
    def heading(self) -> str:
        """The policy, and why it was chosen."""
        return f"{self.policy}: {self.reason}"

    def sections(self, on_page: bool = True) -> list[Section]:
        """A row for each layer."""
        notes = tuple(f"Note: {note}" for note in self.notes)
        return [Section("Layers", notes, tables=(layer_table(self.rows),))]

    def __str__(self) -> str:
        (layers,) = self.sections()
        return "\n".join((self.heading, *map(str, layers.tables), *layers.lines))


def layer_table(rows: Sequence[LayerPrecision]) -> Table:
    """A row for each layer, for people."""
    heading = ("layer", "class", "computes in", "weights", "because")
    told = [(r.path, r.layer_class, r.compute_dtype, r.variable_dtype, r.reason) for r in rows]
    return Table(heading, tuple(told), words=heading)


def _pair(
    tree: LayerNode, rows: tuple[LayerPrecision, ...]
) -> Iterator[tuple[LayerNode, LayerPrecision]]:
    """Pairs layers with rows by path, or by place if the classes agree."""
    nodes = list(tree.within())
    by_path = {row.path: row for row in rows}
    if all(node.path in by_path for node in nodes) and len(nodes) == len(rows):
        return iter([(node, by_path[node.path]) for node in nodes])
    # A model made a second time by the same code has other automatic names, dense_1 for dense.
    classes = [type(node.layer).__name__ for node in nodes]
    if classes == [row.layer_class for row in rows]:
        return zip(nodes, rows, strict=True)
    missing = [row.path for row in rows if row.path not in {node.path for node in nodes}]
    extra = [node.path for node in nodes if node.path not in by_path]
    raise ValueError(
        f"The plan does not fit the model: expected {len(rows)} layers, received {len(nodes)}; "
        f"only in the plan: {', '.join(missing[:3]) or 'none'}; "
        f"only in the model: {', '.join(extra[:3]) or 'none'}. "
        "Make a plan for this model: tfmp.plan(model)."
    )
