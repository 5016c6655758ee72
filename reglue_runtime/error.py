"""The one error of this package."""


class BundleError(Exception):
    """A bundle is not whole, or an example is not what it reads; the message says what to do."""
