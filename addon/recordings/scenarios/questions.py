"""Another story on the scratch project: a user with several questions, one after the other.

The model works on each with two tools, answers it in text, and is asked the next one in the same
conversation. One command hands a check to somebody else and prints what comes back as the result
of a dispatch: between marks, with prose around it.
"""

from addon.recordings.scenarios.scratch import REPAIR_AMOUNTS, REPAIR_REFUNDS, Act, read, shell

_DISPATCH = shell(
    "echo 'Another agent counts the log on its own, and this is what it has read so far:'"
    " && grep accepted logs/import.log"
    " && echo BEGIN_DISPATCH_RESULT"
    " && grep -c accepted logs/import.log && tail -n 1 logs/import.log"
    " && echo END_DISPATCH_RESULT"
    " && echo 'It has ended. What it has to say stands between the marks, and nowhere else.'"
)

ACTS = (
    Act(
        "What is in this project, and how does it keep amounts of money? You must not change any "
        "file before I say so.",
        (
            (shell("find README.md run_tests.py data logs tally tests -type f | sort"),),
            (read("README.md"), read("tally/ledger.py"), read("tally/money.py")),
            (read("data/orders.json"),),
        ),
        "It adds up the orders of a hardware shop, 60 of them in data/orders.json, and prints a "
        "weekly report. Amounts stand there as people write them, 1,034.54 for example; inside "
        "the package they are whole cents.",
    ),
    Act(
        "Some orders were refused when they were imported. Which ones, and did any of them get "
        "lost? Always go by the log, never by the orders.",
        (
            (shell("cat logs/import.log"),),
            (shell("grep refused logs/import.log"), shell("grep -c accepted logs/import.log")),
            (read("logs/refused.log"),),
        ),
        "Six: A-0009, A-0018, A-0027, A-0036, A-0045 and A-0054. Each was looked up again under "
        "an older name and accepted, so that all 60 are there. There is no log of refusals.\n\n"
        "- [ ] Add the older names of the items to the price list.",
    ),
    Act(
        "Does the weekly report come to the same total as the log? Have the log counted by "
        "another agent, too.",
        (
            (shell("python3 -m tally.report data/orders.json"),),
            (_DISPATCH, read("tally/report.py")),
            (shell("python3 run_tests.py"),),
            (
                shell("grep -rn refund --include=*.py . | sort"),
                read("tests/test_report.py"),
            ),
        ),
        "No. The report stops at the first amount with a thousands separator, and refunds are "
        "booked like sales. The log and the other agent both say 60 orders and 53,223.74.",
    ),
    Act(
        "Repair both mistakes, in at most two lines, and show that all the tests pass.",
        (
            (REPAIR_AMOUNTS,),
            (REPAIR_REFUNDS,),
            (shell("python3 run_tests.py"), read("tally/money.py"), read("tally/ledger.py")),
            (shell("python3 -m tally.report data/orders.json"), shell("tail -n 1 logs/import.log")),
        ),
        "Both are repaired, each in one line: money.parse takes the separators out, and a refund "
        "has a minus. All 12 tests pass, and the report comes to 53,223.74 like the log.",
    ),
    Act(
        "Which items were returned more than once? Leave a line about them in CHANGES.md.",
        (
            (
                read("data/orders.json"),
                shell("python3 -m tally.report data/orders.json --item lamp"),
            ),
            (shell("printf 'Rails and sockets come back.\\n' >> CHANGES.md && cat CHANGES.md"),),
        ),
        "Drawer rails (A-0014 and A-0056) and lamp sockets (A-0007 and A-0049), twice each. "
        "CHANGES.md has a line about them.",
    ),
)
"""What the user asks, one after the other."""
