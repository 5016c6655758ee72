"""Serve bundles: `python -m reglue_runtime.service BUNDLE...`."""

from reglue_runtime.service.server import main

if __name__ == "__main__":
    main()
