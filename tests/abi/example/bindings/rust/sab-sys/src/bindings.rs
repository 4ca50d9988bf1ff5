// SHA-256 of include/sab_cdef.h: 204fe562982edcc84c24d6d6efbb33548fd6419cdcaa668811c80a90a0248363
