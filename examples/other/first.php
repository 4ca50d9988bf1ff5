<?php // Batches of at most 64 padded tokens. Run: php first.php
$sab = FFI::cdef(file_get_contents(trim(`pkg-config --variable=declarations sab`)), "libsab.so.0");

function check(int $status): int { // the message belongs to the thread, so nothing may come between
    if ($status < 0) throw new RuntimeException($GLOBALS["sab"]->sab_last_error_message());
    return $status;
}

function struct(string $name): FFI\CData { // all zero but its size
    $made = $GLOBALS["sab"]->new($name);
    $made->struct_size = FFI::sizeof($made);
    return $made;
}

$lengths = $sab->new("int32_t[10]"); // `sizes` borrows it: keep the variable
foreach ([12, 7, 30, 8, 9, 31, 7, 12, 29, 8] as $i => $length) $lengths[$i] = $length;
$budget = $sab->new("sab_budget");
$budget->limit = 64;
$options = struct("sab_plan_options");
$options->budgets = FFI::addr($budget);
$options->budget_count = 1;

[$sizes, $plan, $sampler] = [$sab->new("sab_sizes *"), $sab->new("sab_plan *"), $sab->new("sab_sampler *")];
check($sab->sab_sizes_new($lengths, 10, $sab->SAB_INT32, null, FFI::addr($sizes)));
check($sab->sab_plan_new($sizes, FFI::addr($options), FFI::addr($plan)));
check($sab->sab_bucket_sampler_new($plan, null, FFI::addr($sampler)));
$batch = struct("sab_batch");
while (check($sab->sab_next_batch($sampler, FFI::addr($batch))) === $sab->SAB_OK) {
    printf("padded to %2d:", $batch->padded_length[0]);
    for ($i = 0; $i < $batch->count; ++$i) echo " ", $batch->indices[$i];
    echo "\n";
}
$sab->sab_sampler_free($sampler);
$sab->sab_plan_free($plan);
$sab->sab_sizes_free($sizes);
