"""Batches of the Parquet files of a folder, made by Spark. Needs pyspark and pyarrow.

    spark_batches.py SOURCE TARGET [--column length] [--budget 16384] [--world-size 8] [--seed 0]

TARGET has a folder for each rank, rank=0 and so on. Its rows have the columns of the source, and
batch, step and slot, by which they are sorted. The batches are those that sab.BucketSampler makes
of the rows in the order of Spark's partitions.
"""

import argparse

import numpy as np
import pyarrow
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import sab

PLACES = ("rank", "batch", "step", "slot")


def counter_of(column):
    def count(batches):
        """The histogram of a partition."""
        histogram = sab.Histogram()
        for batch in batches:
            histogram.add(batch.column(column).to_numpy())
        part = {"number": [TaskContext.get().partitionId()], "image": [histogram.to_bytes()]}
        yield pyarrow.RecordBatch.from_pydict(part)

    return count


def locator_of(column, plan, images, order):
    def locate(batches):
        """The rows of a partition with their places. `images`: histograms of those before."""
        before = sab.Histogram.from_bytes(images[TaskContext.get().partitionId()])
        for batch in batches:
            sizes = batch.column(column).to_numpy()
            places = plan.locate(sizes, before.number(sizes), **order)
            columns = (places.ranks, places.batches, places.steps, places.slots)
            arrays = [*batch.columns, *map(pyarrow.array, columns)]
            found = pyarrow.RecordBatch.from_arrays(arrays, [*batch.schema.names, *PLACES])
            yield found.take(np.flatnonzero(places.ranks >= 0))  # the plan may skip samples

    return locate


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--column", default="length", help="with the sizes")
    parser.add_argument("--budget", type=int, default=16384)
    parser.add_argument("--world-size", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    data = spark.read.parquet(options.source)
    # The partitions of files are the same each time as long as the files are.
    counted = data.mapInArrow(counter_of(options.column), "number long, image binary").collect()
    total, images = sab.Histogram(), []
    for part in sorted(counted, key=lambda part: part.number):
        images.append(total.to_bytes())
        total.merge(sab.Histogram.from_bytes(bytes(part.image)))
    plan = sab.plan(total, options.budget)
    order = {"seed": options.seed, "world_size": options.world_size}
    schema = StructType([*data.schema.fields, *(StructField(name, LongType()) for name in PLACES)])
    placed = data.mapInArrow(locator_of(options.column, plan, images, order), schema)
    sorted_rows = placed.repartition("rank").sortWithinPartitions("rank", "batch", "slot")
    sorted_rows.write.partitionBy("rank").parquet(options.target)
    print(f"{plan.sample_count:,} samples in {plan.batch_count:,} batches")
    spark.stop()


if __name__ == "__main__":
    main()
