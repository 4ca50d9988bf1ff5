// Batches of at most 64 padded tokens. Run: mcs -unsafe First.cs && mono First.exe
using System;
using System.Runtime.InteropServices;

// Sizes and offsets are those of sab_abi.json; the fields that are not named stay 0.
[StructLayout(LayoutKind.Explicit, Size = 32 /* sab_budget */)]
struct Budget {
    [FieldOffset(8 /* sab_budget.limit */)] public double Limit;
}

[StructLayout(LayoutKind.Explicit, Size = 192 /* sab_plan_options */)]
unsafe struct PlanOptions {
    [FieldOffset(0 /* sab_plan_options.struct_size */)] public UIntPtr StructSize;
    [FieldOffset(8 /* sab_plan_options.budgets */)] public Budget *Budgets;
    [FieldOffset(16 /* sab_plan_options.budget_count */)] public UIntPtr BudgetCount;
}

[StructLayout(LayoutKind.Explicit, Size = 120 /* sab_batch */)]
unsafe struct Batch {
    [FieldOffset(0 /* sab_batch.struct_size */)] public UIntPtr StructSize;
    [FieldOffset(8 /* sab_batch.indices */)] public long *Indices;
    [FieldOffset(16 /* sab_batch.count */)] public ulong Count;
    [FieldOffset(48 /* sab_batch.padded_length */)] public double *PaddedLength;
}

static unsafe class First {
    [DllImport("libsab.so.0")] static extern IntPtr sab_last_error_message();
    [DllImport("libsab.so.0")] static extern int sab_sizes_new(int *data, UIntPtr count, int type, IntPtr options, out IntPtr sizes);
    [DllImport("libsab.so.0")] static extern void sab_sizes_free(IntPtr sizes);
    [DllImport("libsab.so.0")] static extern int sab_plan_new(IntPtr sizes, PlanOptions *options, out IntPtr plan);
    [DllImport("libsab.so.0")] static extern void sab_plan_free(IntPtr plan);
    [DllImport("libsab.so.0")] static extern int sab_bucket_sampler_new(IntPtr plan, IntPtr options, out IntPtr sampler);
    [DllImport("libsab.so.0")] static extern int sab_next_batch(IntPtr sampler, Batch *batch);
    [DllImport("libsab.so.0")] static extern void sab_sampler_free(IntPtr sampler);

    static int Check(int status) { // the message belongs to the thread, so nothing may come between
        if (status < 0) throw new Exception(Marshal.PtrToStringAnsi(sab_last_error_message()));
        return status;
    }

    static void Main() {
        var lengths = new int[] {12, 7, 30, 8, 9, 31, 7, 12, 29, 8};
        var budget = new Budget {Limit = 64};
        var options = new PlanOptions {StructSize = (UIntPtr)sizeof(PlanOptions), Budgets = &budget, BudgetCount = (UIntPtr)1};
        IntPtr sizes, plan, sampler;
        fixed (int *data = lengths) { // pinned until `sizes`, which borrows it, is freed
            Check(sab_sizes_new(data, (UIntPtr)lengths.Length, 3 /* SAB_INT32 */, IntPtr.Zero, out sizes));
            Check(sab_plan_new(sizes, &options, out plan));
            sab_sizes_free(sizes); // the plan keeps what it needs
        }
        Check(sab_bucket_sampler_new(plan, IntPtr.Zero, out sampler));
        var batch = new Batch {StructSize = (UIntPtr)sizeof(Batch)};
        while (Check(sab_next_batch(sampler, &batch)) == 0) {
            Console.Write("padded to {0,2}:", *batch.PaddedLength);
            for (ulong i = 0; i < batch.Count; ++i) Console.Write(" {0}", batch.Indices[i]);
            Console.WriteLine();
        }
        sab_sampler_free(sampler);
        sab_plan_free(plan);
    }
}
