// SHA-256 of include/sab_cdef.h: af35d07cbf1fef37aba02c620cf4228f4e66036f5fd9894114235988274bca94
