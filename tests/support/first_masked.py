"""When the rule masks each tool result first, as the boundary counts them."""

from collections.abc import Sequence

from masking.window.boundary import Boundary, RequestSize


def find_first_masked(boundary: Boundary, requests: Sequence[RequestSize]) -> dict[int, int]:
    """Play a conversation; return by its place the request that masks a result first."""
    first, eligible = dict[int, int](), boundary._eligible
    for number, request in enumerate(requests):
        boundary.begin(request)
        moves = boundary.decide()
        if boundary._prices.slides:  # where nothing has a price, nothing is counted
            eligible.receive(request.results)
            eligible.advance(boundary._edge)
        for place in eligible._counted if moves else ():
            first.setdefault(place, number)
        boundary.send()
    return first
