"""docs/python.md: its Python runs, and finds what it asks for."""
import contextlib
import importlib.util
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCENARIO_OF_THE_READER = """
model.preset = "llama3-70b"
parallelism.data_parallel_shard_degree = 8
cluster = { preset = "h100", nodes = 8 }
"""


class PagesTest(unittest.TestCase):
    def test_every_block_of_python_on_the_page_runs(self):
        blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/python.md").read_text(),
                            re.S | re.M)
        self.assertTrue(blocks)
        names = {}
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "70b.toml").write_text(SCENARIO_OF_THE_READER)
            os.chdir(folder)
            try:
                for code in blocks:
                    if importlib.util.find_spec("pandas") is None:  # which the page says
                        code = re.sub(r"^.*# .*pandas.*\n", "", code, flags=re.M)
                    with self.subTest(code), contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(code, "docs/python.md", "exec"), names)
            finally:
                os.chdir(before)
        self.assertGreater(names["run"].mfu, 0)
        self.assertEqual(names["runs"].grid("tokens_per_s").shape, (4, 3))
        self.assertTrue(names["runs"].best().ok)
        self.assertEqual([step.step for step in names["training"].steps], [5, 6, 7, 8])


if __name__ == "__main__":
    unittest.main()
