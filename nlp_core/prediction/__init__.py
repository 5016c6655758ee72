"""Open trained models, predict and embed with them."""
