"""The command line: reading sizes, the systems it compares with, tables, pictures."""
