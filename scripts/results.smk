# Every experiment in virtual time as a Snakemake workflow: a job for each part of each file, then one that merges and reports.
#
#   make lab && snakemake -s scripts/results.smk --cores all [--config files="experiments/tcp-nc-*.toml" parts=4]
#
# A part that was stopped (status 75) goes on where it was when it is tried again: --retries 3.
from glob import glob
from pathlib import Path

LAB, PARTS = config.get("lab", "target/release/fulmar-lab"), int(config.get("parts", 8))
FILES = {Path(f).stem: f for f in sorted(glob(config.get("files", "experiments/*.toml")))}

rule report:
    input: expand("results/done/{name}-{part}", name=FILES, part=range(PARTS))
    shell: "{LAB} merge results && {LAB} report results"

rule part:
    output: touch("results/done/{name}-{part}")
    params: file=lambda wildcards: FILES[wildcards.name]
    shell: "{LAB} run {params.file} --skip-missing --shard {wildcards.part}/{PARTS}"
