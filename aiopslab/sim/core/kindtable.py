"""The built-in kinds as rows: ``group/version plural Kind`` and flags.

Flags: ``cluster`` (not namespaced), ``virtual`` (nothing is stored), ``short=``, ``cat=``, ``verbs=``,
``sub=`` (subresources), ``storage=`` (shown from another resource's objects). A dotted group is as in URLs.
``ALIASES`` gives what some words stand for.
"""

ALIASES = {
    "extensions": "apiextensions.k8s.io",
    "admission": "admissionregistration.k8s.io",
    "@ext": "api-extensions",
    "@hpa": "autoscaling/horizontalpodautoscalers",
    "@pod": "attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize,status",
}
BUILTIN = """
core/v1 bindings Binding verbs=create virtual
core/v1 componentstatuses ComponentStatus cluster short=cs verbs=get,list virtual
core/v1 configmaps ConfigMap short=cm
core/v1 endpoints Endpoints short=ep
core/v1 events Event short=ev
core/v1 limitranges LimitRange short=limits
core/v1 namespaces Namespace cluster short=ns verbs=create,delete,get,list,patch,update,watch sub=finalize,status
core/v1 nodes Node cluster short=no sub=proxy,status
core/v1 persistentvolumeclaims PersistentVolumeClaim short=pvc sub=status
core/v1 persistentvolumes PersistentVolume cluster short=pv sub=status
core/v1 pods Pod short=po cat=all sub=@pod
core/v1 podtemplates PodTemplate
core/v1 replicationcontrollers ReplicationController short=rc cat=all sub=scale,status
core/v1 resourcequotas ResourceQuota short=quota sub=status
core/v1 secrets Secret
core/v1 serviceaccounts ServiceAccount short=sa sub=token
core/v1 services Service short=svc cat=all sub=proxy,status
admission/v1 mutatingadmissionpolicies MutatingAdmissionPolicy cluster cat=@ext
admission/v1 mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding cluster cat=@ext
admission/v1 mutatingwebhookconfigurations MutatingWebhookConfiguration cluster cat=@ext
admission/v1 validatingadmissionpolicies ValidatingAdmissionPolicy cluster cat=@ext sub=status
admission/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding cluster cat=@ext
admission/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration cluster cat=@ext
apiregistration.k8s.io/v1 apiservices APIService cluster cat=@ext sub=status
extensions/v1 customresourcedefinitions CustomResourceDefinition cluster short=crd,crds cat=@ext sub=status
apps/v1 controllerrevisions ControllerRevision
apps/v1 daemonsets DaemonSet short=ds cat=all sub=status
apps/v1 deployments Deployment short=deploy cat=all sub=scale,status
apps/v1 replicasets ReplicaSet short=rs cat=all sub=scale,status
apps/v1 statefulsets StatefulSet short=sts cat=all sub=scale,status
authentication.k8s.io/v1 selfsubjectreviews SelfSubjectReview cluster verbs=create virtual
authentication.k8s.io/v1 tokenreviews TokenReview cluster verbs=create virtual
authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview verbs=create virtual
authorization.k8s.io/v1 selfsubjectaccessreviews SelfSubjectAccessReview cluster verbs=create virtual
authorization.k8s.io/v1 selfsubjectrulesreviews SelfSubjectRulesReview cluster verbs=create virtual
authorization.k8s.io/v1 subjectaccessreviews SubjectAccessReview cluster verbs=create virtual
autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler short=hpa cat=all sub=status storage=@hpa
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler short=hpa cat=all sub=status
batch/v1 cronjobs CronJob short=cj cat=all sub=status
batch/v1 jobs Job cat=all sub=status
certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest cluster short=csr sub=approval,status
coordination.k8s.io/v1 leases Lease
discovery.k8s.io/v1 endpointslices EndpointSlice
events.k8s.io/v1 events Event short=ev storage=events
networking.k8s.io/v1 ingressclasses IngressClass cluster
networking.k8s.io/v1 ingresses Ingress short=ing sub=status
networking.k8s.io/v1 ipaddresses IPAddress cluster short=ip
networking.k8s.io/v1 networkpolicies NetworkPolicy short=netpol
networking.k8s.io/v1 servicecidrs ServiceCIDR cluster sub=status
node.k8s.io/v1 runtimeclasses RuntimeClass cluster
policy/v1 poddisruptionbudgets PodDisruptionBudget short=pdb sub=status
rbac.authorization.k8s.io/v1 clusterrolebindings ClusterRoleBinding cluster
rbac.authorization.k8s.io/v1 clusterroles ClusterRole cluster
rbac.authorization.k8s.io/v1 rolebindings RoleBinding
rbac.authorization.k8s.io/v1 roles Role
scheduling.k8s.io/v1 priorityclasses PriorityClass cluster short=pc
storage.k8s.io/v1 csidrivers CSIDriver cluster
storage.k8s.io/v1 csinodes CSINode cluster
storage.k8s.io/v1 csistoragecapacities CSIStorageCapacity
storage.k8s.io/v1 storageclasses StorageClass cluster short=sc
storage.k8s.io/v1 volumeattachments VolumeAttachment cluster sub=status
storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass cluster short=vac
"""
