"""The one error of this package."""


class BundleError(Exception):
    """A bundle is incomplete, or an example is not what it reads."""
