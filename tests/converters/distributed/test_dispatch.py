"""Every task counts once and in order, whichever workers die, and whenever."""

import itertools

import pytest
from hypothesis import assume, given, settings, strategies as st

from tfmp.converters.distributed.dispatch import Dispatch, Lost
from tfmp.converters.shared.errors import InputError


class FakeCrew:
    """Workers that answer with the task's double, in any order, and die when they are told to."""

    def __init__(self, size=2, deaths=(), order=()):
        self.size = size
        self.hired = 0
        self.ended = []
        self.given = []
        self.open_at_once = 0
        self._deaths = list(deaths)
        self._order = itertools.cycle(order or [0])
        self._tickets = itertools.count()
        self._asked = {}

    def hire(self):
        self.hired += 1
        return self.hired

    def opened(self, worker):
        return self._ticket(worker, None)

    def give(self, worker, task):
        self.given.append(task)
        ticket = self._ticket(worker, task)
        tasks = [task for _, task in self._asked.values() if task is not None]
        self.open_at_once = max(self.open_at_once, len(tasks))
        return ticket

    def _ticket(self, worker, task):
        assert worker not in self.ended
        ticket = next(self._tickets)
        self._asked[ticket] = worker, task
        return ticket

    def next_done(self, tickets):
        return sorted(tickets)[next(self._order) % len(tickets)]

    def result(self, ticket):
        _, task = self._asked.pop(ticket)
        if self._deaths and self._deaths.pop(0):
            raise Lost("killed")
        return None if task is None else 2 * task

    def dismiss(self, worker):
        self.ended.append(worker)


# Never three in a row: that is told as an error.
DEATHS = st.lists(st.sampled_from([[True, False], [False]]), max_size=20).map(
    lambda runs: list(itertools.chain.from_iterable(runs))
)


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 4), st.integers(0, 20), DEATHS, st.lists(st.integers(0, 7), max_size=6))
def test_each_task_counts_once_and_in_order(size, tasks, deaths, order):
    crew = FakeCrew(size, deaths, order)
    dispatch = Dispatch(crew)
    try:
        results = list(dispatch.run(iter(range(tasks))))
    except InputError:  # one task may meet three deaths, however far apart they are
        assume(False)
    assert results == [2 * task for task in range(tasks)]
    assert dispatch.replaced == len(crew.ended) == crew.hired - size


def test_the_first_answer_is_in_before_the_second_task_is_given():
    crew = FakeCrew(4)
    results = Dispatch(crew).run(iter(range(9)))
    assert next(results) == 0
    assert crew.given == [0]


def test_tasks_are_read_no_further_ahead_than_the_window():
    """The oldest task stays unanswered for as long as there is another: the rest has to wait."""
    crew = FakeCrew(2, order=[0, 0, 0, 1])
    read = []

    def tasks():
        for task in range(100):
            read.append(task)
            yield task

    for result in Dispatch(crew).run(tasks()):
        assert len(read) - result / 2 <= 2 * 4 + 1
    assert len(read) == 100
    assert crew.open_at_once == 2


def test_a_task_that_ends_three_workers_is_told():
    crew = FakeCrew(1, deaths=[False, True, False, True, False, True])
    with pytest.raises(InputError, match=r"ray: batch 1 ended 3 workers; the last one: killed\. "):
        list(Dispatch(crew).run(iter([1])))


def test_workers_that_do_not_start_are_told():
    crew = FakeCrew(1, deaths=[True, True, True])
    with pytest.raises(InputError, match=r"ray: 3 workers in a row could not start; the last one"):
        list(Dispatch(crew).run(iter([1])))
