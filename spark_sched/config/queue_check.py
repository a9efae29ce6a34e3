"""Reads the file of the tenants' queues for a driver, which reads no TOML:

python -m spark_sched.config.queue_check FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from spark_sched.config.queue_file import read_queues
from spark_sched.errors import BadInputError
from spark_sched.files import read_text, toml_table


def main(file: str) -> int:
    """Write a JSON object with ``queues``, the setting that the file becomes, or ``error``, a sentence.

    The setting is empty where the file has nothing.
    """
    try:
        text = read_text(Path(file))
        answer = {"queues": read_queues(Path(file)).to_json() if toml_table(text, file) else ""}
    except BadInputError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
