"""What is known of one element of a request's list: facts that follow from the element alone.

An agent sends the same elements again at every turn. What is remembered of an element is the same
object in every request that holds the same bytes, so a fact is worked out once and then found.
"""

from masking.elements import Element, ElementSize


class Known:
    """An element of a request's list as decoded, as it was read, and what else was found of it.

    Every fact is a pure function of the element and its format. It is None until somebody asks:
    whoever asks first works it out and assigns it. Threads share one without a lock, because to
    work out a fact twice does no harm. A new fact is a slot here that begins as None. It must not
    depend on the element's place in a list, nor on settings.

    item, element: as decoded, and as the format reads it.
    size: what `WireFormat.measure_element` returns.
    """

    __slots__ = ("__weakref__", "element", "item", "size")

    def __init__(self, item: object, element: Element) -> None:
        self.item = item
        self.element = element
        self.size: ElementSize | None = None
