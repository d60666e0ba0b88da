"""`python -m pocketmq.namesrv`, which is `pocketmq namesrv`."""

from pocketmq.namesrv.command import namesrv

if __name__ == "__main__":
    namesrv(prog_name="python -m pocketmq.namesrv")
