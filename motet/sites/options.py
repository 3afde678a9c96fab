"""What a user writes about sites, as values: addresses and times."""

from motet.errors import MotetError, shown


def seconds_of(text: str) -> float:
    """Return the seconds of a text such as 90, 90s, 10m or 2h; raise a `MotetError` for anything else."""
    units = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in "smh" and text else (text, "")
    try:
        value = float(number) * units[unit] if number.isascii() else 0.0
    except ValueError:
        value = 0.0
    if not 1 <= value <= 7 * 86400:
        raise MotetError(f"--deadline is {shown(text)}; accepted: 1s to 168h, such as 90s, 10m or 2h")
    return value


def address_of(text: str, field: str) -> tuple[str, int]:
    """Return host and port of a text such as 0.0.0.0:8000; raise a `MotetError` for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise MotetError(f"{field} is {shown(text)}; accepted: HOST:PORT, such as 0.0.0.0:8000")
    return host, int(port)
