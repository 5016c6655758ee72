"""What a step trains on: the plain loss, adversarial objectives, or the loss of a student."""
