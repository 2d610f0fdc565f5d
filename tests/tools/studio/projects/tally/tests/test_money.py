from tally import money


def test_small_amount():
    assert money.parse("12.50") == 1250


def test_blanks_around():
    assert money.parse("  0.05 ") == 5


def test_large_amount():
    assert money.parse("1,250.00") == 125000


def test_larger_amount():
    assert money.parse("12,001,250.99") == 1200125099


def test_no_point():
    try:
        money.parse("1250")
    except ValueError as error:
        assert "two digits" in str(error)
    else:
        raise AssertionError("an amount without a point was taken")


def test_shown():
    assert money.show(125000) == "1,250.00"


def test_shown_below_zero():
    assert money.show(-5) == "-0.05"
