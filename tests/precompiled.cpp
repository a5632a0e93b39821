// This file is empty. The target whose precompiled header the tests share needs a source.
