"""Runs a function of this very package in an interpreter that imports nothing from where it was started.

    python …/spark_sched/isolated.py MODULE FUNCTION [ARGUMENT …]

Python searches the folder of a script, or with ``-m`` and ``-c`` the working directory, before all others: a
``numpy.py`` there would run in place of NumPy. So this file is run by its path, takes its own folder and
whatever is not absolute off the search path, and loads the package that it belongs to from where it is, even
if another version is installed. PYTHONPATH and the user's site packages count as ever: dependencies may be
there.
"""

import sys

#: The oldest Python that can run the package. This file is for older ones, too.
OLDEST = (3, 11)


def load(folder: str) -> None:
    """Load ``spark_sched`` from its folder, without what else is beside it there."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(
        "spark_sched", f"{folder}/__init__.py", submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["spark_sched"] = module_from_spec(spec)
    spec.loader.exec_module(module)


def main(module: str, function: str, *arguments: str) -> None:
    """Call the function with these arguments and exit with what it returns."""
    if sys.version_info < OLDEST:
        # The driver looks for these words. An older Python cannot even read the package.
        wanted, found = (".".join(map(str, each)) for each in (OLDEST, sys.version_info[:2]))
        sys.exit(f"spark_sched needs Python {wanted} or newer, and this is {found}")
    folder = __file__.rpartition("/")[0]
    # Nothing is imported before this: Python puts the folder there with its links resolved.
    from os.path import realpath  # imported by Python itself already

    sys.path[:] = [each for each in sys.path if each.startswith("/") and realpath(each) != realpath(folder)]
    load(folder)
    from importlib import import_module

    try:
        status = getattr(import_module(module), function)(*arguments)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "spark_sched":
            raise
        # The driver looks for this line, too, and passes over the Python.
        sys.exit(f"{sys.executable}: {error}")
    sys.exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
