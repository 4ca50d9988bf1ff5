// SHA-256 of include/sab_cdef.h: e4ad8d960d25a6a51177f77ac6e8e6aec85debdeb5bd251696137b5e2347f38b
