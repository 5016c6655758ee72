"""Model graphs: planning with shapes, building, saving."""
