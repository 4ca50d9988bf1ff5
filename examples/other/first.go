// Batches of at most 64 padded tokens. Run: go run first.go
package main

/*
#cgo pkg-config: sab
#include <stdlib.h>
#include <sab.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

func check(status C.sab_status) C.sab_status {
	if status < 0 { // the message belongs to the thread, so main() stays on its own
		panic(C.GoString(C.sab_last_error_message()))
	}
	return status
}

func main() {
	runtime.LockOSThread()
	lengths := []int32{12, 7, 30, 8, 9, 31, 7, 12, 29, 8}
	layout := C.sab_sizes_options{struct_size: C.sizeof_sab_sizes_options, copy: 1} // no pointer to Go's memory is kept
	budget := (*C.sab_budget)(C.calloc(1, C.sizeof_sab_budget))                     // in C's memory, since `options` points to it
	defer C.free(unsafe.Pointer(budget))
	budget.limit = 64
	options := C.sab_plan_options{struct_size: C.sizeof_sab_plan_options, budgets: budget, budget_count: 1}

	var sizes *C.sab_sizes
	var plan *C.sab_plan
	var sampler *C.sab_sampler
	check(C.sab_sizes_new(unsafe.Pointer(&lengths[0]), C.size_t(len(lengths)), C.SAB_INT32, &layout, &sizes))
	check(C.sab_plan_new(sizes, &options, &plan))
	check(C.sab_bucket_sampler_new(plan, nil, &sampler))
	batch := C.sab_batch{struct_size: C.sizeof_sab_batch}
	for check(C.sab_next_batch(sampler, &batch)) == C.SAB_OK {
		fmt.Printf("padded to %2.0f:", float64(*batch.padded_length))
		for _, index := range unsafe.Slice(batch.indices, batch.count) {
			fmt.Printf(" %d", index)
		}
		fmt.Println()
	}
	C.sab_sampler_free(sampler)
	C.sab_plan_free(plan)
	C.sab_sizes_free(sizes)
}
