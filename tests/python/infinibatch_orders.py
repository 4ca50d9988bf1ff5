"""Prints what infinibatch's iterators give for many seeds and arguments, as JSON: of libsab, or
(with the argument `infinibatch`) of infinibatch itself."""

import importlib
import json
import sys


def take(iterator, most=60):
    taken = []
    for _ in range(most):
        try:
            taken.append(next(iterator))
        except StopIteration:
            taken.append("end")
            break
    return taken


def orders(I, D):  # noqa: E741
    def numbers(count=30):
        return I.ChunkedSourceIterator(list(range(count)))

    out = []
    for seed in (0, 1, 5, 12345, 2**40):
        out.append(take(I.InfinitePermutationSourceIterator(list(range(7)), seed=seed)))
        out.append(
            take(
                I.InfinitePermutationSourceIterator(
                    list(range(7)), seed=seed, num_instances=3, instance_rank=2
                )
            )
        )
        out.append(take(I.BufferedShuffleIterator(numbers(), 7, seed)))
        out.append(take(I.BlockwiseShuffleIterator(numbers(), 7, seed)))
        out.append(take(I.RandomIterator(seed), 5))
        out.append(
            take(
                I.SamplingRandomMapIterator(
                    numbers(),
                    lambda r, x: (x, r.random(), r.gauss(0, 1), r.randrange(10**20)),
                    seed,
                )
            )
        )
        out.append(
            take(
                I.BucketedReadaheadBatchIterator(
                    numbers(50), 13, lambda x: x * 7 % 11, 3, seed=seed
                )
            )
        )
        keyed = I.BucketedReadaheadBatchIterator(
            numbers(50),
            13,
            lambda x: (x * 7 % 11, x),
            lambda x: 1 + x % 4,
            boundary_key=lambda x: x % 3,
            seed=seed,
        )
        out.append(take(keyed))
        texts = I.MapIterator(numbers(50), lambda x: "a" * (x * 7 % 11 + 1))
        out.append(
            take(
                I.BucketedReadaheadBatchIterator(
                    texts, 13, len, lambda longest: 20 // len(longest), seed=seed
                )
            )
        )
        out.append(
            take(
                I.BucketedReadaheadBatchIterator(numbers(26), 13, None, 4, shuffle=False, seed=seed)
            )
        )
        for use_windowed in (False, True):
            for instances in (1, 2):
                chunks = ["abc", "def", "gh", "ijk"]
                options = dict(
                    seed=seed,
                    use_windowed=use_windowed,
                    transform=str.upper,
                    num_instances=instances,
                    instance_rank=instances - 1,
                )
                out.append(take(D.chunked_dataset_iterator(chunks, iter, 5, **options)))
    out.append(
        take(
            D.chunked_dataset_iterator(
                ["abc", "def", "gh", "ijk"],
                iter,
                5,
                train=False,
                shuffle=False,
                num_instances=3,
                instance_rank=1,
            )
        )
    )
    out.append(
        take(
            I.MultiplexIterator(I.ChunkedSourceIterator([0, 1, 1, 0, -1]), [numbers(3), numbers(9)])
        )
    )
    out.append(take(I.ZipIterator(numbers(3), numbers(9))))
    out.append(take(I.WindowedIterator(numbers(7), 3)))
    out.append(take(I.FixedBatchIterator(numbers(7), 3)))
    out.append(take(I.SelectManyIterator(I.FixedBatchIterator(numbers(7), 3))))
    out.append(take(I.RecurrentIterator(numbers(6), lambda state, x: (state + x, state * x), 3)))
    pool = I.ParallelMapIterator(numbers(9), str, 2, 2)
    out.append(take(pool))
    pool.close()
    permuted = I.InfinitePermutationSourceIterator(list(range(40)), seed=4)
    iterator = I.BucketedReadaheadBatchIterator(
        I.BlockwiseShuffleIterator(permuted, 11, 3), 13, lambda x: x, 3, seed=2
    )
    take(iterator, 7)
    state = iterator.getstate()
    after = take(iterator, 20)
    iterator.setstate(state)
    assert take(iterator, 20) == after
    iterator.setstate(None)
    out.append(take(iterator, 20))
    return out


if __name__ == "__main__":
    package = sys.argv[1] if len(sys.argv) > 1 else "sab.compat.infinibatch"
    print(
        json.dumps(
            orders(
                importlib.import_module(f"{package}.iterators"),
                importlib.import_module(f"{package}.datasets"),
            )
        )
    )
