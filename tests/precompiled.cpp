// Nothing: the target whose precompiled header the tests share needs a source.
