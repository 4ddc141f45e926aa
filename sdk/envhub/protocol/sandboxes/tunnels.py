"""What the worker of a tunnel and the program that holds it say to each other over web sockets.

The program opens one at the tunnel's own address and keeps it. On it the worker sends a WantedConnection for each
connection that a sandbox begins, and the program answers by another web socket at `<address>/<connection>`, or by
NoConnection. Over that one the bytes go as binary messages; the text EOF says that one side will send no more.
"""

from pydantic import Field

from envhub.protocol.base import Response

EOF = "eof"
PIECE = 64 * 1024  # bytes of a message


class WantedConnection(Response):
    """Of the worker: a sandbox has connected."""

    connection: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")


class NoConnection(Response):
    """Of the program: its own side refuses."""

    connection: str = Field(max_length=64)
    reason: str = Field(max_length=1000)
