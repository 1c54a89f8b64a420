from .audit import (
    ActivationFinding as ActivationFinding,
    Audit as Audit,
    audit_model as audit_model,
)
