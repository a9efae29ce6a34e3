"""Programs in the place of those that the scripts of a cluster on EC2 call."""

AWS = """#!{python}
# `aws s3 cp` as the master's script uses it.
import pathlib, sys
import boto3
args = [a for a in sys.argv[3:] if a not in ("--no-progress", "--recursive")]
assert sys.argv[1:3] == ["s3", "cp"], sys.argv
s3 = boto3.client("s3")
def split(uri): return uri.removeprefix("s3://").partition("/")[::2]
source, target = args
if "--recursive" not in sys.argv:
    s3.download_file(*split(source), target)
elif source.startswith("s3://"):
    bucket, prefix = split(source)
    for row in s3.list_objects_v2(Bucket=bucket, Prefix=prefix + "/").get("Contents", []):
        name = row["Key"].removeprefix(prefix + "/")
        s3.download_file(bucket, row["Key"], str(pathlib.Path(target) / name))
else:
    bucket, prefix = split(target)
    for path in pathlib.Path(source).iterdir():
        s3.upload_file(str(path), bucket, prefix + "/" + path.name)
"""
RUNUSER = """#!/bin/bash
# runuser -u spark -- PROGRAM ab run SUITE --out DIR --master URL --json
[ "$1 $2 $3" = "-u spark --" ] || exit 64
shift 4
arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    --master) echo "$2" >>"$MASTERS"; arguments+=(--simulate); shift 2 ;;
    *) arguments+=("$1"); shift ;;
  esac
done
exec {python} -m spark_sched "${{arguments[@]}}"
"""
