"""The results as pages of HTML: an overview, a page for each table and one for each cell."""
