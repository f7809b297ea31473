"""Which setting wins, and everything around it: the search, the verdict, the record and the files."""
