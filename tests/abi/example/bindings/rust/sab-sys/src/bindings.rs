// SHA-256 of include/sab_cdef.h: 17df6b60cac7063d091c80f0fc5d816cdaa73341eafaf032324777bdd4ea686f
