/* A shared object with the static library inside, as an extension module has it: nothing of the
 * library is seen from outside. */
#include "copies.h"

void embedded_functions(copy *copy);

void embedded_functions(copy *copy) {
#define FILL(name) copy->name = name;
    EACH_FUNCTION(FILL)
}
