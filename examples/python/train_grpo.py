"""GRPO on two CPU processes that meet through gloo: a small model learns to write ascending digits.

Each step, every rank samples 8 responses to each of its prompts. Responses end when the model says
so, hence their lengths differ in every step. All ranks gather the lengths, and each computes the
same plan: which rank trains on which responses, in micro-batches of at most 256 tokens. Groups stay
on one rank. The table compares the ranks' tokens with those of the responses that they made.

    train_grpo.py [--ranks 2] [--steps 20] [--prompts 12]
"""

import argparse
import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing

import sab

END, DIGITS, RESPONSES, LONGEST, BUDGET = 10, 10, 8, 60, 256


class Policy(torch.nn.Module):
    """The logits of the next digit, or of the end, after each token."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(DIGITS + 1, 32)
        self.recurrent = torch.nn.GRU(32, 64, batch_first=True)
        self.out = torch.nn.Linear(64, DIGITS + 1)

    def forward(self, tokens, state=None):
        seen, state = self.recurrent(self.embedding(tokens), state)
        return self.out(seen), state


@torch.no_grad()
def generate(policy, prompts):
    """A response to each prompt, a digit: the tokens up to the end or to the longest length."""
    token, state, columns = prompts[:, None], None, []
    for _ in range(LONGEST):
        logits, state = policy(token, state)
        token = torch.distributions.Categorical(logits=logits[:, 0]).sample()[:, None]
        columns.append(token)
    rows = torch.cat(columns, 1)
    ends = (rows == END).float().argmax(1)
    lengths = torch.where((rows == END).any(1), ends + 1, torch.full_like(ends, LONGEST))
    return [row[:length] for row, length in zip(rows, lengths.tolist())]


def reward(prompt, response):
    """The share of digits that are one more than the digit before, for responses that end."""
    digits = torch.cat([prompt[None], response[response != END]])
    follows = (digits[1:] == (digits[:-1] + 1) % DIGITS).float()
    return float(follows.mean()) if len(follows) and response[-1] == END else 0.0


def gather(mine):
    """The lists of all ranks, one after the other."""
    lists = [None] * dist.get_world_size()
    dist.all_gather_object(lists, mine)
    return [each for some in lists for each in some]


def loss_of(policy, samples, advantages, weights):
    """The weighted sum of the samples' losses, which are means over their tokens."""
    total = 0.0
    inputs = [torch.cat([prompt[None], response[:-1]]) for prompt, response in samples]
    padded = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True)
    log_probabilities = policy(padded)[0].log_softmax(-1)
    for row, (_, response), advantage, weight in zip(
        log_probabilities, samples, advantages, weights
    ):
        chosen = row[: len(response)].gather(1, response[:, None])
        total = total - weight * advantage * chosen.mean()
    return total


def work(rank, arguments, meeting):
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=arguments.ranks
    )
    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    torch.manual_seed(1 + rank)
    if rank == 0:
        print("step  tokens  micro-batches  own rank/mean  planned rank/mean  reward")
    for step in range(arguments.steps):
        prompts = torch.randint(DIGITS, (arguments.prompts,)).repeat_interleave(RESPONSES)
        made = list(zip(prompts, generate(policy, prompts)))
        samples = gather(made)
        owner = gather([rank] * len(made))
        rewards = torch.tensor([reward(*each) for each in samples])
        groups = torch.arange(len(samples)) // RESPONSES
        by_group = rewards.view(-1, RESPONSES)
        advantages = by_group - by_group.mean(1, keepdim=True)
        advantages = (advantages / (by_group.std(1, keepdim=True) + 1e-4)).flatten()

        lengths = torch.tensor([len(response) for _, response in samples])
        plan = sab.plan_step(lengths, world_size=arguments.ranks, budget=BUDGET, groups=groups)
        weights = plan.loss_weights("token").float()
        optimizer.zero_grad()
        for indices in plan.rank(rank):
            if len(indices) == 0:
                continue
            own = [samples[i] for i in indices.tolist()]
            loss_of(policy, own, advantages[indices], weights[indices]).backward()
        for parameter in policy.parameters():
            if parameter.grad is None:  # no sample for this rank
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)  # the weights of all ranks sum to 1
        optimizer.step()

        if rank == 0:
            without = torch.bincount(torch.tensor(owner), lengths, minlength=arguments.ranks)
            print(
                f"{step:>4}  {int(lengths.sum()):>6}  {plan.micro_batches:>13}  "
                f"{float(without.max() / without.mean()):>13.3f}  "
                f"{plan.rank_imbalance:>17.3f}  {float(rewards.mean()):.3f}"
            )
    total = sum(float(parameter.detach().double().sum()) for parameter in policy.parameters())
    assert len(set(gather([total]))) == 1  # all ranks have the same model
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2, help="number of processes")
    parser.add_argument("--steps", type=int, default=20, help="steps of the optimizer")
    parser.add_argument("--prompts", type=int, default=12, help="prompts of a rank in a step")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(work, (arguments, f"{folder}/meeting"), nprocs=arguments.ranks)


if __name__ == "__main__":
    main()
