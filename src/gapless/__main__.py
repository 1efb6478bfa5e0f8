"""`python -m gapless`: the same commands as the `gapless` script."""

from __future__ import annotations

from gapless.cli.app import main

if __name__ == "__main__":
    main()
