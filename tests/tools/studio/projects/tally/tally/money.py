"""Amounts of money, as whole cents."""


def parse(text):
    """Turn '12.50' into 1250. Raises ValueError when the text is no amount."""
    units, point, cents = text.strip().partition(".")
    if not point or len(cents) != 2:
        raise ValueError(f"no amount with two digits after the point: {text!r}")
    return int(units) * 100 + int(cents)


def show(cents):
    """Turn 125000 into '1,250.00'."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02}"
