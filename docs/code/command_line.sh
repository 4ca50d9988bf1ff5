# The command line on WordNet's glosses.
python "$REPOSITORY"/examples/python/wordnet.py > glosses.txt
# [compare]
sab compare glosses.txt --budget 1024
# [end]
echo
# [plan]
sab plan glosses.txt --budget 1024 --world-size 8 --save glosses.plan
# [end]
echo
# [pack]
sab pack glosses.txt --capacity 2048
# [end]
# [json]
sab plan glosses.txt --budget 1024 --json |
  python -c "import json, sys; assert json.load(sys.stdin)['padding'] < 0.01"
# [end]
test -s glosses.plan
