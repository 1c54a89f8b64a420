"""Damage to bytes, as disks, transfers and attackers do it; the same for the same seed."""

import random

# Values at the edges of what fields of files hold.
_EDGES = [
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80",
    b"\xff" * 8,
    b"\xff" * 7 + b"\x7f",
    b"-1",
    b"99999999999999999999",
    b"\x1b]0;evil\x07",
    b"\xed\xa0\x80",  # half of a surrogate pair
    b"[" * 300,
    b"nan",
]


def mutated(content: bytes, seed: int) -> bytes:
    """Content with one to four places that are damaged, or cut off somewhere."""
    dice = random.Random(seed)
    found = bytearray(content)
    for _ in range(dice.choice([1, 1, 1, 2, 4])):
        # Headers are at the beginning or at the end.
        ends = dice.choice([64, 512, len(found)])
        place = dice.randrange(max(1, min(ends, len(found))))
        if dice.random() < 0.3:
            place = max(0, len(found) - 1 - place)
        length = dice.choice([1, 1, 2, 4, 16, 256])
        kind = dice.randrange(7)
        if kind == 0 and found:
            found[place % len(found)] ^= 1 << dice.randrange(8)
        elif kind == 1:
            found[place : place + length] = dice.randbytes(length)
        elif kind == 2:
            edge = dice.choice(_EDGES)
            found[place : place + len(edge)] = edge
        elif kind == 3:
            del found[place : place + length]
        elif kind == 4:
            found[place:place] = dice.choice(_EDGES)
        elif kind == 5:
            source = dice.randrange(max(1, len(found)))
            found[place : place + length] = found[source : source + length]
        elif dice.random() < 0.5:
            del found[place:]
    return bytes(found)
