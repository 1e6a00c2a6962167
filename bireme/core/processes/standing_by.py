"""The program of the process that `server` starts: it serves a job, and speaks for the first process if that one is killed.

It imports nothing of this package, which would take longer than all of its work.
"""

import json
import sys
import time

from jaxlib import _jax


def main(address: str, nodes: int, heartbeat: int, grace: float) -> None:
    """Serve until the process that started this one is gone, and a little longer."""
    served = _jax.get_distributed_runtime_service(address, nodes, heartbeat_timeout=heartbeat, recoverable=True)
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    client = _jax.get_distributed_runtime_client(
        address, 0, init_timeout=10, heartbeat_timeout=heartbeat, shutdown_on_destruction=False, use_compression=False
    )
    client.connect()
    if not any(key.endswith("/0") for key, _ in client.key_value_dir_get("ended/")):
        client.key_value_set("ended/0", json.dumps(["without a word", True]))
    until = time.monotonic() + grace
    while len(client.key_value_dir_get("ended/")) < nodes and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)  # between what they tell and their leaving there is no more to hear
    client.shutdown()
    del served


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
