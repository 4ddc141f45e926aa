"""A worker's process: `ticket_program FOLDER MEMORY_MB OWNER RUN SIZE...` says in a line when it gets a ticket.

It asks at once for a ticket of each SIZE, out of a host's MEMORY_MB. A line on its standard input gives one back.
"""

import asyncio
import os
import sys
from pathlib import Path

from workers.broker.room import Room
from workers.broker.tickets import Party, Tickets


async def main(folder: str, memory_mb: str, owner: str, run: str, *sizes: str) -> None:
    tickets = Tickets(Path(folder), Room(memory_mb=float(memory_mb)), Party(owner, run))
    taken: asyncio.Queue[int] = asyncio.Queue()

    async def take(size: str) -> None:
        taken.put_nowait(await tickets.take(Room(1, float(size), 1)))
        print("got", flush=True)

    tasks = [asyncio.create_task(take(size)) for size in sizes]
    print("asks", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        os.close(taken.get_nowait())
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
