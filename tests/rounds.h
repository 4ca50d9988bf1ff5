/* How many rounds of random cases a test has. */
#ifndef ROUNDS_H
#define ROUNDS_H

/* An eighth with sanitizers, since each round takes about eight times as long there. They look for
 * faults of memory and of arithmetic on every path; what holds for all cases is tested without. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS_OF(all) ((all) / 8)
#else
#define ROUNDS_OF(all) (all)
#endif

#endif
