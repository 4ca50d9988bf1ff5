# Batches of at most 64 padded tokens. Run: Rscript first.R, after first_r.c is built
dyn.load("first_r.so")
lengths <- as.integer(c(12, 7, 30, 8, 9, 31, 7, 12, 29, 8))
for (batch in .Call("batches_of", lengths, 64)) {
  cat(sprintf("padded to %2d: %s\n", attr(batch, "padded"), paste(batch, collapse = " ")))
}
