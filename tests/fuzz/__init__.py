"""The fuzzer: inputs made from grammars of valid ones and then mutated, with a seed that makes them again."""
