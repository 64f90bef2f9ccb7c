"""``python -m seer`` is the command ``seer``."""

from .cli import main

if __name__ == "__main__":
    main()
