from tally import ledger, report


def order(kind, amount, item="oak shelf"):
    return {"number": "A-1", "kind": kind, "item": item, "amount": amount}


def test_a_sale_is_booked():
    assert ledger.book(order("sale", "10.00")).cents == 1000


def test_a_refund_is_booked_with_a_minus():
    entry = ledger.book(order("refund", "10.00"))
    assert entry.cents == -1000, f"a refund of 10.00 was booked as {entry.cents}"


def test_totals_by_item():
    entries = [ledger.book(order("sale", "2.00", item)) for item in ("hook", "knob", "hook")]
    assert ledger.totals(entries) == {"hook": 400, "knob": 200}


def test_balance_of_a_sale_taken_back():
    entries = [ledger.book(order(kind, "3.50")) for kind in ("sale", "refund")]
    assert ledger.balance(entries) == 0, f"the balance is {ledger.balance(entries)}"


def test_last_line_is_the_balance():
    entries = [ledger.book(order("sale", "10.00"))]
    assert list(report.lines(entries))[-1].endswith("10.00")
