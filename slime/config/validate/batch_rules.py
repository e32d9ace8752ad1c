"""The rules about batch sizes: what they are called and why they exist. Their checks are in `batch`."""

from __future__ import annotations

from slime.config.flags import Text
from slime.config.rule import Rule
from slime.config.validate import batch

RULES = (
    Rule(
        id="padding-multiple",
        row=6,
        source="verl#3296",
        title=Text("打包后的长度满足并行和 FP8 的整除要求", "The packed length divides as parallelism and FP8 want"),
        why=Text(
            "序列并行按 TP 切分 token，上下文并行把序列对折，FP8 的 kernel 以 16 行为单位；补齐的倍数要同时满足三者。",
            "Sequence parallelism splits tokens by TP, context parallelism folds a sequence in two, FP8 kernels take "
            "rows "
            "in sixteens; the padding has to suit all three.",
        ),
        cfg=batch.check_padding,
    ),
    Rule(
        id="balanced-round",
        row=15,
        source="verl#4152",
        title=Text(
            "要平衡的一轮样本够每个数据并行组分一个", "A balanced round has a sample for each data-parallel rank"
        ),
        why=Text(
            "有的实现在平衡时还要求整除，否则断言失败；这里只要求每组至少一个样本。",
            "Other trainers also ask for a multiple and fail an assertion; here each rank needs one sample.",
        ),
        cfg=batch.check_balanced_round,
    ),
    Rule(
        id="whole-steps",
        row=19,
        source="slime#39, slime#1514",
        title=Text("一轮的样本正好分成整步", "The samples of a round make whole steps"),
        why=Text(
            "除不尽时，有的实现会悄悄丢弃余下的样本；这里由最后一步多训练一些，一步的大小便与众不同。",
            "With a remainder, other trainers drop samples without a word; here the last step takes them as well, and "
            "is larger than the rest.",
        ),
        cfg=batch.check_whole_steps,
    ),
    Rule(
        id="train-iters",
        row=20,
        source="slime#2366",
        title=Text("整个运行至少更新一次，学习率预热能结束", "The run takes a step, and its warm-up ends"),
        why=Text(
            "更新次数由四个参数相乘得出；为 0 时 Megatron 只说 lr_decay_steps 必须大于 0。",
            "The number of steps follows from four flags; when it is 0, Megatron only says that lr_decay_steps must be "
            "above 0.",
        ),
        cfg=batch.check_train_iters,
    ),
    Rule(
        id="whole-groups",
        row=21,
        source="open-r1#249, open-r1#236, trl#2858, trl#3061",
        severity="warning",
        title=Text("一步包含完整的组", "A step holds whole groups"),
        why=Text(
            "组内优势按完整的组计算，所以数值没有错；但一组被切到两步时，后一半用的策略已经更新过了。",
            "Advantages are computed over true groups, so they stay right; but when a group spans two steps, its "
            "second "
            "half trains a policy that has moved.",
        ),
        cfg=batch.check_whole_groups,
    ),
    Rule(
        id="derived-batches",
        row=22,
        source="verl#552",
        title=Text("派生出来的批大小都不为 0", "No derived batch is zero"),
        why=Text(
            "整除得到 0 时，切分样本的循环不会结束，或者某个数据并行组什么都分不到。",
            "When a division gives 0, the loop that splits samples does not end, or a rank gets nothing.",
        ),
        cfg=batch.check_derived_batches,
    ),
    Rule(
        id="equal-shares",
        row=23,
        source="verl#1136",
        severity="warning",
        title=Text(
            "固定大小的 micro-batch：各数据并行组分到同样多的样本",
            "Fixed micro-batches: each data-parallel rank has the same number of samples",
        ),
        why=Text(
            "有的实现因此悄悄用错误的系数缩放梯度。这里损失除以真实的个数，结果没有错，只是样本少的组在空算。",
            "Other trainers then scale gradients by a wrong factor without a word. Here the loss divides by the true "
            "count, so nothing is wrong but the time of the ranks that have fewer.",
        ),
        cfg=batch.check_equal_shares,
    ),
    Rule(
        id="micro-batches",
        row=24,
        source="verl#833, verl#405",
        severity="warning",
        title=Text("固定大小的 micro-batch 能整除一个组的样本", "Fixed micro-batches divide the samples of a rank"),
        why=Text(
            "有的实现会因最后一个不满的 micro-batch 得到 NaN；这里只是多算一个小的。",
            "Other trainers end in NaN over an incomplete last micro-batch; here it is computed as a small one.",
        ),
        cfg=batch.check_micro_batches,
    ),
    Rule(
        id="round-feeds-ranks",
        row=25,
        source="ROLL#135",
        title=Text("每个数据并行组每轮至少有一个样本", "Each data-parallel rank has a sample in every round"),
        why=Text(
            "分不到样本的一组会让其余各组一直等待它的梯度。",
            "A rank without samples leaves the others waiting for its gradients for ever.",
        ),
        cfg=batch.check_round_feeds_ranks,
    ),
    Rule(
        id="one-step",
        row=26,
        source="SkyRL#1609, SkyRL#229, SkyRL#393",
        title=Text("一轮的样本至少够一步", "A round fills at least one step"),
        why=Text(
            "凑不满一步时，截掉余数之后一个样本也不剩，指标在空数组上出错。",
            "When a round is smaller than a step, cutting the remainder leaves no sample, and metrics fail on an empty "
            "array.",
        ),
        cfg=batch.check_one_step,
    ),
    Rule(
        id="one-micro-batch",
        row=27,
        source="OpenRLHF#584",
        severity="warning",
        title=Text("每组至少够一个固定大小的 micro-batch", "Each rank fills one micro-batch of fixed size"),
        why=Text(
            "有的实现此时梯度累积的次数是 0，无法启动；这里每组只有一个不满的 micro-batch。",
            "Other trainers then have 0 steps of gradient accumulation and do not start; here each rank has one that "
            "is not full.",
        ),
        cfg=batch.check_one_micro_batch,
    ),
    Rule(
        id="steps-per-rollout",
        title=Text("每轮步数与全局批大小一致", "Steps per round and global batch agree"),
        why=Text(
            "两个参数说的是同一件事；说法不同时，总有一个会被忽略。",
            "The two flags say one thing; when they differ, one of them would be ignored.",
        ),
        cfg=batch.check_steps_per_rollout,
    ),
)
