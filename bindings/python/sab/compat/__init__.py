"""Other libraries' names and signatures over the same core: change the import line."""
