"""Work on sessions: few tasks are under way, their results come in order, a bar shows them."""

import io
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from threading import Event

import pytest
from rich.console import Console
from rich.progress import Progress

from addon.commands.work import WorkProgress, run_tasks
from addon.commands.workers import count_reached, open_processes, open_workers, tell_reached
from addon.replay.replay import Session
from tests.support.given_sessions import work_on
from tests.support.talks import grow
from tests.support.talks import work as made_up_work


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


def ignore(task: int, result: int) -> None:
    """Be told of a task that is done."""


def test_results_come_in_order_and_are_told_as_they_are_done(threads: Executor) -> None:
    may_end, told = Event(), list[int]()

    def work(task: int) -> int:
        if task == 0:
            may_end.wait()
        return task

    def note(task: int, result: int) -> None:
        told.append(result)
        if len(told) == 5:
            may_end.set()

    found = run_tasks(lambda task: threads.submit(work, task), range(20), 2, note, in_order=True)
    assert [*range(20)] == [*found]
    assert 0 not in told[:5]


def test_processes_come_to_the_same() -> None:
    with open_processes(2) as executor:
        found = run_tasks(
            lambda task: executor.submit(abs, task), range(-9, 9), 2, ignore, in_order=True
        )
        assert [abs(task) for task in range(-9, 9)] == [*found]


@pytest.mark.parametrize(("width", "begun"), [(1, 4), (3, 12)])
def test_few_tasks_are_begun_before_one_is_done(width: int, begun: int) -> None:
    futures: list[Future[int]] = []

    def submit(task: int) -> Future[int]:
        futures.append(Future())
        if task == begun - 1:
            futures[0].set_result(0)
        return futures[-1]

    assert 0 == next(run_tasks(submit, iter(range(1_000)), width, ignore, in_order=True))
    assert begun == len(futures)


def test_no_task_is_begun_while_many_results_wait_for_one() -> None:
    first, begun = Future[int](), list[int]()

    def submit(task: int) -> Future[int]:
        begun.append(task)
        if task == 0:
            return first
        future = Future[int]()
        future.set_result(task)
        return future

    def note(task: int, result: int) -> None:
        if task == 255:
            first.set_result(0)

    found = run_tasks(submit, range(1_000), 1, note, in_order=True)
    assert 0 == next(found)
    assert [*range(256)] == begun
    assert [*range(1, 1_000)] == [*found]


def test_a_mistake_is_raised_and_what_has_not_begun_is_cancelled() -> None:
    futures: list[Future[int]] = [Future() for _ in range(4)]
    futures[3].set_exception(ValueError("broken.flow is no recording"))
    with pytest.raises(ValueError, match="no recording"):
        next(run_tasks(lambda task: futures[task], range(4), 1, ignore, in_order=True))
    assert [True, True, True, False] == [future.cancelled() for future in futures]


def test_no_tasks_have_no_results(threads: Executor) -> None:
    assert [] == [*run_tasks(lambda task: threads.submit(abs, task), [], 2, ignore, in_order=True)]


# The bar


def find_done(progress: Progress) -> str:
    """Return what is shown as done, without the speed."""
    return str(progress.tasks[0].fields["done"]).rpartition(", ")[0]


def test_the_requests_of_a_session_are_shown_before_it_ends() -> None:
    progress = Progress(console=Console(quiet=True), auto_refresh=False)
    shown = WorkProgress(progress, "replay", 3, None)

    def reach(number: int) -> None:
        tell_reached(number)
        shown.refresh()

    reach(1)
    reach(2)
    assert "0 sessions, 2 requests" == find_done(progress)
    tell_reached(0)
    shown.add(1, 2)
    assert "1 session, 2 requests" == find_done(progress)
    reach(1)
    assert "1 session, 3 requests" == find_done(progress)
    shown.add(1, None)
    assert "1 session, 3 requests" == find_done(progress)
    shown.add(1, 7)
    assert "2 sessions, 10 requests" == find_done(progress)
    tell_reached(0)


def test_a_worker_tells_how_many_requests_it_has_reached() -> None:
    with open_processes(1) as executor:
        for number in (7, 0):
            executor.submit(tell_reached, number).result()
            assert number == count_reached()


def test_work_in_this_process_shows_each_request_as_it_is_read() -> None:
    """The bar is drawn once more where it ends, and here that is in the middle of a session."""
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80)

    def read_half(session: Session) -> int:
        for number, _ in enumerate(session.requests(), 1):
            if number == 2:
                raise ValueError("enough")
        return 0

    with open_workers(processes=1) as workers, pytest.raises(ValueError, match="enough"):
        list(work_on([grow(made_up_work(3))], workers, terminal).run("replay", read_half, [()]))
    assert "0 sessions, 2 requests" in screen.getvalue()
