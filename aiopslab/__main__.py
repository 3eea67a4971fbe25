"""``python -m aiopslab`` is the console script."""

from aiopslab.cli import main

main()
