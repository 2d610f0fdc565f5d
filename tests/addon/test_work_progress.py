"""What the bar shows while sessions are worked on."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from addon.commands.work_progress import WorkProgress
from addon.commands.workers import open_workers
from addon.replay.replay import Session
from tests.given_sessions import work_on
from tests.sessions import grow, work


def find_done(progress: Progress) -> str:
    """Return what is shown as done, without the speed."""
    return str(progress.tasks[0].fields["done"]).rpartition(", ")[0]


def test_the_requests_of_a_session_are_shown_before_it_ends() -> None:
    progress = Progress(console=Console(quiet=True), auto_refresh=False)
    shown = WorkProgress(progress, "replay", 3)
    shown.see(1)
    shown.see(2)
    assert "0 sessions, 2 requests" == find_done(progress)
    shown.note(1, 2)
    assert "1 sessions, 2 requests" == find_done(progress)
    shown.see(1)
    assert "1 sessions, 3 requests" == find_done(progress)
    shown.note_known(1, 7)
    shown.see(1)
    assert "2 sessions, 10 requests" == find_done(progress)


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
        list(work_on([grow(work(3))], workers, terminal).run("replay", read_half, [()], int))
    assert "0 sessions, 2 requests" in screen.getvalue()
