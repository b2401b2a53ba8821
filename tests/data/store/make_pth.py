"""Makes the .pth files of this folder with PyTorch. The tests need only the files."""
import os
import torch
torch.manual_seed(1)
D = os.path.dirname(os.path.abspath(__file__)) + "/"
lin=torch.nn.Linear(3,2)
sd=lin.state_dict()
base=torch.arange(12,dtype=torch.float32).reshape(3,4)
sd["row"]=base[1]; sd["transposed"]=base.t(); sd["base"]=base
sd["half"]=torch.tensor([1.,-2.,65504.],dtype=torch.float16)
sd["brain"]=torch.tensor([[1.5],[-3.]],dtype=torch.bfloat16)
sd["scalar"]=torch.tensor(7,dtype=torch.int64)
sd["empty"]=torch.zeros(0,5)
sd["flags"]=torch.tensor([True,False,True])
sd["parameter"]=torch.nn.Parameter(torch.tensor([2.5]))
torch.save(sd,D+"state.pth")
torch.save({"epoch":3,"lr":1e-4,"big":1<<40,"state_dict":{"a":torch.tensor([1.,2.])},"list":[1,(2,)],"none":None},D+"wrapped.pth")
torch.save({"a":torch.tensor([1.])},D+"legacy.pth",_use_new_zipfile_serialization=False)
torch.jit.script(lin).save(D+"script.pth")
class Evil:
    def __reduce__(self): return (os.system,("touch /tmp/zoe-was-run",))
torch.save({"a":Evil()},D+"evil.pth")
torch.save({"a":torch.zeros(1,1,1,1,1,1)},D+"rank6.pth")
torch.save({"a":torch.zeros(1).expand(1000,1000)},D+"expanded.pth")
