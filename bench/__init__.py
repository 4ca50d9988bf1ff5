"""The referee: every peer does the same work, and one counter judges the batches of all."""
